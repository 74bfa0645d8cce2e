/**
 * A command at the lowest priority there is, below whoever runs it. Where the system shares its processors by sessions first
 * (autogroups), priority counts only inside one: give the command a session of its own, whose share it lowers too.
 */
export function atLowestPriority(command: string, args: readonly string[]): { command: string; args: string[] } {
  const script = '{ echo 19 > /proc/self/autogroup; } 2> /dev/null; exec chrt --idle 0 "$@"';
  return { command: 'sh', args: ['-c', script, 'sh', command, ...args] };
}
