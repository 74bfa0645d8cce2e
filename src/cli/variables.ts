import { WITHHELD_NAME } from '../model/secret.ts';
import type { CommandInput } from './command-input.ts';
import { usage } from './exit-code.ts';

export const VARIABLE_NAME: RegExp = /^[A-Za-z_]\w*$/;
/** Maximum number of names in the note. */
const SHOWN = 6;

/** The variables that `-e` passes to the server command after `--`. */
export function passedVariables({ flags, serverCommand, terminal }: CommandInput): Record<string, string> {
  const { env: words = [] } = flags;
  if (words.length > 0 && serverCommand.length === 0)
    throw usage('-e is for the command behind "--"; servers of a file have "env" there, those of add have its own -e');
  return Object.fromEntries(
    words.map((word) => {
      const cut = word.indexOf('=');
      const name = cut < 0 ? word : word.slice(0, cut);
      // A word that is not a name may be a secret value, so the error omits it.
      if (!VARIABLE_NAME.test(name)) throw usage('-e takes NAME or NAME=value');
      const value = cut < 0 ? terminal.env[name] : word.slice(cut + 1);
      if (value === undefined) throw usage(`-e ${name}: ${name} is not set here; set it, or write -e ${name}=value`);
      return [name, value];
    }),
  );
}

/** Names variables that look like secrets and are not passed to the server command after `--`; null if there are none. */
export function withheldNote({ flags, serverCommand, terminal }: CommandInput): string | null {
  if (serverCommand.length === 0) return null;
  const passed = new Set((flags.env ?? []).map((word) => word.split('=')[0]));
  const names = Object.keys(terminal.env)
    .filter((name) => WITHHELD_NAME.test(name) && !name.startsWith('TRUNKLINE_'))
    .filter((name) => terminal.env[name] !== '' && !passed.has(name))
    .sort();
  if (names.length === 0) return null;
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : '';
  return `Not passed to the server: ${names.slice(0, SHOWN).join(', ')}${more}. If it needs one: trunkline -e ${names[0]} -- …`;
}
