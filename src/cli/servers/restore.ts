import { restoreStopped } from '../../app/stopped-gateway.ts';
import { type CommandInput, print } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { openProblemText } from '../open-problem-text.ts';
import { loadOptions } from '../sources.ts';

/** `trunkline restore [--empty]`: what was decided at run time is damaged, and its last good snapshot is to hold again. */
export async function restore(input: CommandInput & { readonly empty: boolean }): Promise<ExitCode> {
  const { terminal, empty } = input;
  const result = await restoreStopped(loadOptions(input, true), empty ? 'empty' : 'snapshot');
  if (!result.ok) throw new CommandError(EXIT.usage, openProblemText(result.problem, terminal.cwd));
  const { restored, file } = result;
  const { keptAs, takenAt, records } = restored;
  const at = takenAt?.toISOString() ?? null;
  const what = at === null ? 'nothing' : `the snapshot of ${at} (${records} records)`;
  const kept = keptAs === null ? '' : `  what was there is kept as ${keptAs}\n`;
  const later = at === null ? '' : '  what was changed after the snapshot is not in it\n';
  print(input, { file, keptAs, takenAt: at, records }, () => `${file} holds ${what} now\n${kept}${later}`);
  return EXIT.ok;
}
