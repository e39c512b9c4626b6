"""What is injected into the training process: the standard library and the user's torch, nothing else.

The probe copies this folder beside a recording and loads it there under a private name, in the interpreter of the
training environment, which need not have trainlint. Everything here therefore runs on Python 3.9 and newer, imports its
neighbours relatively through the private name, and never raises into the job: the first fault turns the agent off.
"""
