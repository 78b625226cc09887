#!/usr/bin/env bash
# Makes a Python virtual environment whose torch works on the CPU: tests/python_with_torch.sh DIR [TORCH_WHEEL]
#
# The wheel of torch asks for 2.5 GB of CUDA libraries. A module that runs on the CPU calls none of them, but the loader
# wants every library and every symbol to be there: empty libraries with traps for functions are enough. Then
#     PAVLOV_TEST_PYTHON=DIR/bin/python cargo test -p pavlov export
set -euo pipefail
venv=$1
torch=${2:-torch==2.13.0}

python3 -m venv --clear "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet)
"${pip[@]}" --no-deps "$torch" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*'
"${pip[@]}" typing_extensions filelock sympy networkx jinja2 fsspec

packages=$(echo "$venv"/lib/python3*/site-packages)
lib=$packages/nvidia/cu13/lib
# ld.so refuses a symbol with a version in the unversioned library of that very name, so all traps are in one more.
nm -D --undefined-only "$packages"/torch/lib/*.so | awk '{sub(/@.*/, "", $2); print $2}' |
    grep -E '^(cu[A-Z]|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nvrtc|nvshmem)' | sort -u |
    sed 's/.*/void &(void) { __builtin_trap(); }/' >"$lib/traps.c"
cc -shared -fPIC -w -o "$lib/libtraps.so" -Wl,-soname,libtraps.so "$lib/traps.c"
readelf -d "$packages"/torch/lib/*.so | grep -oE 'lib(cu|nccl|nv)[A-Za-z_]*\.so\.[0-9]+' | sort -u |
    while read -r name; do
        [ -e "$lib/$name" ] || cc -shared -o "$lib/$name" -Wl,-soname,"$name" -Wl,-rpath,'$ORIGIN' \
            -Wl,--no-as-needed -x c /dev/null -x none "$lib/libtraps.so"
    done
"$venv/bin/python" -c 'import torch; print("torch", torch.__version__)'
