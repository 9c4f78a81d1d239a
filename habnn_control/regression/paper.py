"""Values printed in the HABNN paper, from paper_values.csv.

Columns: block, quantity, test_set, dataset, method, printed. Values are as printed (">1e6" where the paper prints it),
also where its tables disagree: test_set "main text" marks values of the main text, "in" those of the appendix.
"""

from functools import cache
from importlib.resources import files

import pandas as pd


@cache
def printed() -> pd.DataFrame:
    """Return all printed values with a numeric column `value`; ">1e6" counts as 1e6."""
    with files("habnn_control.regression").joinpath("paper_values.csv").open() as file:
        table = pd.read_csv(file, dtype={"printed": str})
    return table.assign(value=table["printed"].str.lstrip(">").astype(float))


def lookup(quantity: str, test_set: str, block: str = "raw", text: bool = False) -> dict[tuple[str, str], float | str]:
    """Return one printed quantity by (dataset, method), as numbers or as text."""
    table = printed()
    rows = table[(table["quantity"] == quantity) & (table["test_set"] == test_set) & (table["block"] == block)]
    return dict(
        zip(zip(rows["dataset"], rows["method"], strict=True), rows["printed" if text else "value"], strict=True)
    )
