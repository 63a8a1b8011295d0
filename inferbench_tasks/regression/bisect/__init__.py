"""Which of many steps (commits, versions, images) made a change: pairs of two steps, halving, a sequential test."""
