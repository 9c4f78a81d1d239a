"""What a controller is made of; nothing here knows one particular plant."""
