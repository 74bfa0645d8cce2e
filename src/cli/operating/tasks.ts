import { printable } from '../../model/printable.ts';
import type { TaskView } from '../../model/task-view.ts';
import { runningClient } from '../access/find-running.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';

/** `trunkline tasks`: the tasks of all callers on all nodes. */
export async function tasks(input: CommandInput): Promise<ExitCode> {
  const found = JSON.parse(await (await runningClient(input)).get('/api/v1/tasks')) as { readonly tasks: TaskView[] };
  print(input, found, () => found.tasks.map(taskLine).join('') || 'there are no tasks\n');
  return EXIT.ok;
}

/** `trunkline tasks cancel <key>`. */
export async function cancel(input: CommandInput & { readonly key: string }): Promise<ExitCode> {
  const path = `/api/v1/tasks/${encodeURIComponent(input.key)}/cancel`;
  const task = JSON.parse(await (await runningClient(input)).post(path, '{}')) as TaskView;
  print(input, task, () => taskLine(task));
  return EXIT.ok;
}

function taskLine({ key, server, principal, status, startedAt, message }: TaskView): string {
  const words = [key, server.padEnd(16), status.replace('_', ' ').padEnd(14), startedAt, principal, message ?? ''];
  return `${printable(words.join('  ').trimEnd())}\n`;
}
