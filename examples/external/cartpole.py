"""Plays CartPole for a run that waits for episodes: python cartpole.py [ADDRESS] [EPISODES] [SEED]."""

import sys

import gymnasium
from policy_client import PolicyClient, Refused

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9900"
episodes = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
env = gymnasium.make("CartPole-v1")
client = PolicyClient(address)
seed = int(sys.argv[3]) if len(sys.argv) > 3 else None
for _ in range(episodes):
    observation, _ = env.reset(seed=seed)
    seed = None
    try:
        episode = client.start_episode()
        ended = False
        while not ended:
            action = client.get_action(episode, observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            client.log_returns(episode, reward)
            ended = terminated or truncated
        client.end_episode(episode, observation, truncated and not terminated)
    except Refused as refused:
        if refused.code != "unknown_episode":  # The run began anew: so does the episode.
            raise
    except OSError:
        print("the run has ended")
        break
