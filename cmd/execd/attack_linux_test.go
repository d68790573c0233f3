package main_test

// attack is what a user runs who means no good. It says what happened.
func attack(args []string) int { return 0 }
