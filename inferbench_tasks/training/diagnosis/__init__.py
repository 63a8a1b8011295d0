"""What holds a training up: a file for each rule, which says what it sees, by which figures, and what would mend it."""
