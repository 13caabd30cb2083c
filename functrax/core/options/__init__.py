"""Options: the table of them, who has set one, and how users set them for a block."""
