"""The paper's sensitivity tables: HABNN with other prior scales, degrees of freedom and numbers of layers."""

GRID = {"scale": (0.01, 0.1, 1, 2, 5), "dof": (12, 20, 30, 50, 75), "layers": (1, 2, 3, 4)}
BASES = ("habnn", "habnn-recommended")
VARIANTS = ("constant", *(f"{base}:{name}={value:g}" for base in BASES for name in GRID for value in GRID[name]))
