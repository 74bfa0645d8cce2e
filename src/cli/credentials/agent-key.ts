import { findRunning } from '../access/find-running.ts';
import { readOnce } from '../check.ts';
import { type CommandInput, print } from '../command-input.ts';
import { cannotOpen, EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { loadOptions } from '../sources.ts';

/** `trunkline key <agent>`: prints an agent's key, for command lines that must not contain it: `"$(trunkline key writer)"`. */
export async function agentKey(input: CommandInput & { readonly agent: string }): Promise<ExitCode> {
  const { agent: name, terminal } = input;
  const file = input.file ?? (await findRunning(input))?.instance.files[0];
  const read = await readOnce(loadOptions({ ...input, file }), input);
  if (!read.ok) throw cannotOpen({ kind: 'config', problems: read.problems }, terminal.cwd);
  const { agents } = read.state;
  const key = agents.get(name)?.key.reveal();
  if (key === undefined) throw noSuch(`agent "${name}"`, name, [...agents.keys()], '; agents are in the configuration');
  print(input, { agent: name, key }, () => `${key}\n`);
  return EXIT.ok;
}
