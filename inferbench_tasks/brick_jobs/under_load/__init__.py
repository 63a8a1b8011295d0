"""What a serving submission that has never run would measure: bricks' times, what the server adds, its queue."""
