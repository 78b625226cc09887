"""What type checkers say of programs that use the package. `mypy --strict` reads this file: a comment that it does not need is
an error, so each line that has one is refused. Nothing runs it."""

from pavlov_rl import DDPG, DQN, PPO, SAC, MaskablePPO, RecurrentPPO, load
from pavlov_rl.common.noise import NormalActionNoise

model = PPO("MlpPolicy", "CartPole-v1", 3e-4, 2048, learning_rate=1e-3)  # type: ignore[misc]
model = PPO("MlpPolicy", "CartPole-v1", learning_rate=lambda left: left * 1e-3, clip_range_vf=None, settings={"lr": 1e-3})
model = PPO("MlpPolicy", "CartPole-v1", learning_rat=1e-3)  # type: ignore[call-arg]
model = PPO("MlpPolicy", "CartPole-v1", n_steps=0.5)  # type: ignore[arg-type]
model.learn(100).ent_coef = 0.5
model.ent_coef = "auto"  # type: ignore[assignment]
model.ent_coeff  # type: ignore[attr-defined]
model.learn(100, callbak=None)  # type: ignore[call-arg]

MaskablePPO("MlpPolicy", "CartPole-v1", use_sde=False)  # type: ignore[call-arg]
RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=64)
DQN("MlpPolicy", "CartPole-v1", train_freq=(4, "step"))
SAC("MlpPolicy", "Pendulum-v1", ent_coef="auto_0.1")
DDPG("MlpPolicy", "Pendulum-v1", action_noise=NormalActionNoise(0.0, 0.1))
DDPG("MlpPolicy", "Pendulum-v1", policy_delay=2)  # type: ignore[call-arg]
load("model").learn(100)
