"""What holds for every test: no test is judged by the clock."""

from hypothesis import HealthCheck, settings

settings.register_profile("clew", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("clew")
