"""What people look at: sequence charts and the HTML report."""
