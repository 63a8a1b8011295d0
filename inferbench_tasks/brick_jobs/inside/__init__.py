"""What opens, reads and runs models while they are cut: always in a process of its own, inside the sandbox."""
