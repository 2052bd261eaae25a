"""What holds for every test: no test is judged by the clock, and Ctrl-C reaches every process that a test starts."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("clew", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("clew")

# A shell that starts something behind its back has it ignore Ctrl-C, and so would all that is started from here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
