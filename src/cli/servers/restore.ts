import { restoreStopped } from '../../app/stopped-gateway.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { openProblemText } from '../open-problem-text.ts';
import { loadOptions } from '../sources.ts';

/** `trunkline restore [--empty]`: what was decided at run time is damaged, and its last good snapshot is to hold again. */
export async function restore(input: CommandInput & { readonly empty: boolean }): Promise<ExitCode> {
  const { terminal, flags, empty } = input;
  const result = await restoreStopped(loadOptions(input, true), empty ? 'empty' : 'snapshot');
  if (!result.ok) throw new CommandError(EXIT.usage, openProblemText(result.problem, terminal.cwd));
  const { restored, file } = result;
  const { keptAs, takenAt, records } = restored;
  if (flags.json === true) {
    terminal.out(`${JSON.stringify({ file, keptAs, takenAt: takenAt?.toISOString() ?? null, records })}\n`);
    return EXIT.ok;
  }
  const what = takenAt === null ? 'nothing' : `the snapshot of ${takenAt.toISOString()} (${records} records)`;
  terminal.out(`${file} holds ${what} now\n`);
  if (keptAs !== null) terminal.out(`  what was there is kept as ${keptAs}\n`);
  if (takenAt !== null) terminal.out('  what was changed after the snapshot is not in it\n');
  return EXIT.ok;
}
