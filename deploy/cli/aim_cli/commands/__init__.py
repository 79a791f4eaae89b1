"""What each command is called and given, and how it ends. Each imports what it needs when it runs."""
