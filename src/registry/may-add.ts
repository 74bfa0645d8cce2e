import type { Need } from '../config/server/definition-needs.ts';
import { RunTimeProblem } from './run-time-problem.ts';

/** Who asks for a change at run time. */
export interface Caller {
  /** Has the right `servers:exec`: may do by a definition whatever who writes the files may. */
  readonly exec: boolean;
}

/** Throws RunTimeProblem where the definition does more than its caller may (decision 019). */
export function refuseBeyondRights(needs: readonly Need[], caller: Caller, allowedCommands: readonly string[]): void {
  if (caller.exec) return;
  const beyond = needs.filter((need) => need.kind !== 'command' || !allowedCommands.includes(need.command));
  if (beyond.length === 0) return;
  const fix =
    'write it into the configuration file, use `trunkline add`, or send the exec token of the data folder' +
    (beyond.every(({ kind }) => kind === 'command') ? ', or allow the command in control.commands' : '');
  throw new RunTimeProblem(
    'exec_required',
    `this server ${beyond.map(told).join(' and ')}, which takes the right servers:exec; ${fix}`,
  );
}

function told(need: Need): string {
  switch (need.kind) {
    case 'command':
      return `runs the command ${JSON.stringify(need.command)}`;
    case 'ssh':
      return 'runs on another host';
    case 'container':
      return 'runs in a container';
    case 'reads':
      return `reads variables or files of the gateway (${need.what})`;
    case 'variable':
      return `sets the variable ${need.name}, which steers other programs`;
    case 'address':
      return `is at ${need.host}, an address of this machine or its network`;
  }
}
