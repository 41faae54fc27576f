"""USD: characters read from and written to .usd, .usda, .usdc and .usdz files."""
