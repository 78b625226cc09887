"""Registers its environments only when it is told to. It prints, and goes to another directory when it is imported."""

import os

import gymnasium

from tests.py.clothes import Alone

print("a line on stdout while it is imported")
os.chdir("/")


class Talking(Alone):
    def step(self, action):
        print("a line on stdout in a step")
        return super().step(action)


def register_envs():
    gymnasium.register("Told-v0", entry_point=Talking, max_episode_steps=17)
