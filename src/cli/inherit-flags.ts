import type { Command } from 'commander';
import { usage } from './exit-code.ts';

const ON = /^(?:1|true|yes)$/i;
const OFF = /^(?:0|false|no)$/i;

/**
 * Adds the flags before the name of a command to its own. Every command reads the environment too: a flag of the command line
 * precedes it, wherever it was written.
 */
export function inheritFlags(command: Command): void {
  readSwitches(command);
  for (let above = command.parent; above !== null; above = above.parent) {
    readSwitches(above);
    for (const [key, value] of Object.entries(above.opts())) {
      const source = above.getOptionValueSource(key);
      const own = command.getOptionValueSource(key);
      if (own !== undefined && (own === 'cli' || source !== 'cli')) continue;
      command.setOptionValueWithSource(key, value, source);
    }
  }
}

/** Whether the value of an environment variable turns an option on. */
export function isOn(text: string | undefined): boolean {
  return ON.test(text ?? '');
}

/** Commander turns an option without a value on if its variable is set, to whatever value. An empty one counts as unset. */
function readSwitches(command: Command): void {
  for (const option of command.options) {
    const key = option.attributeName();
    if (!option.isBoolean() || command.getOptionValueSource(key) !== 'env') continue;
    const name = option.envVar!;
    const text = process.env[name]!;
    if (text === '') command.setOptionValueWithSource(key, undefined, undefined);
    else if (OFF.test(text)) command.setOptionValueWithSource(key, false, 'env');
    else if (!isOn(text)) {
      throw usage(`the environment has ${name}=${text}; set it to 1, true or yes, to 0, false or no, or not at all`);
    }
  }
}
