import { readFileSync } from 'node:fs';

/**
 * A command in the scheduler's idle class, which delays no other process. Where the system shares its processors by sessions
 * first (autogroups), the class counts only inside one: give the command a session of its own, whose share it lowers too.
 */
export function atLowestPriority(command: string, args: readonly string[]): { command: string; args: string[] } {
  const script = '{ echo 19 > /proc/self/autogroup; } 2> /dev/null; exec chrt --idle 0 "$@"';
  return { command: 'sh', args: ['-c', script, 'sh', command, ...args] };
}

/**
 * Node in the same class, without the helper threads of V8. They return memory to the kernel in steps of milliseconds; a
 * kernel without preemption (`CONFIG_PREEMPT_NONE`) delays processes of every class until a step is complete.
 */
export function nodeAtLowestPriority(args: readonly string[]): { command: string; args: string[] } {
  return atLowestPriority(process.execPath, ['--single-threaded', ...args]);
}

/** Whether sessions share the processors first: even the idle class keeps others waiting then, for a slice of time each. */
export function sharesBySessions(): boolean {
  try {
    return readFileSync('/proc/sys/kernel/sched_autogroup_enabled', 'utf8').trim() === '1';
  } catch {
    return false;
  }
}
