"""``python -m memtally``."""

from memtally.cli import main

if __name__ == "__main__":
    main()
