"""`python -m understudy` is the command line."""

from understudy.cli.app import main

if __name__ == "__main__":
    main()
