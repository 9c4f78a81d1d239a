"""The regression study of the HABNN paper: six UCI sets, eleven methods, in and out of distribution."""
