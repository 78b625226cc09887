// Hides AVX-512 from a program, whatever library it computes with.
//
//     gcc -O2 -shared -fPIC benches/without_avx512.c -o without_avx512.so
//     LD_PRELOAD=$PWD/without_avx512.so GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW PROGRAM
//
// JAX's flag `--xla_cpu_max_isa=AVX2` holds the code that XLA generates, but not the products of the library YNNPACK in it,
// which look at the processor themselves. Here the instruction CPUID faults (Linux on Intel, flag `cpuid_fault` in
// /proc/cpuinfo), and is answered without the bits of AVX-512 and AMX. Threads inherit this; programs that are started do, too.

#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012

static void let_cpuid_fault(int yes) { syscall(SYS_arch_prctl, ARCH_SET_CPUID, yes ? 0 : 1); }

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
        signal(number, SIG_DFL); // A real fault: it comes again, and ends the process.
        return;
    }
    unsigned leaf = registers[REG_RAX], part = registers[REG_RCX], a, b, c, d;
    let_cpuid_fault(0);
    __cpuid_count(leaf, part, a, b, c, d);
    let_cpuid_fault(1);
    if (leaf == 7 && part == 0) {
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
    } else if (leaf == 7 && part == 1) {
        a &= ~(1u << 5);
        d &= ~(1u << 19);
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGSEGV, &action, 0);
    let_cpuid_fault(1);
}
