"""functrax: composable transformations of array functions, traced into a small typed language."""
