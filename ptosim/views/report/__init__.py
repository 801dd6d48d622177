"""What is known of a program as one page: verdict, findings, values, time, memory, accuracy."""
