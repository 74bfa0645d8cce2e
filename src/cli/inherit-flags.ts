import type { Command } from 'commander';
import { usage } from './exit-code.ts';

const ON = /^(?:1|true|yes)$/i;
const OFF = /^(?:0|false|no)$/i;

/**
 * Adds the flags before the name of a command to its own. Every command reads the environment too: a flag of the command line
 * precedes it, wherever it was written.
 */
export function inheritFlags(command: Command): void {
  readValues(command);
  for (let above = command.parent; above !== null; above = above.parent) {
    readValues(above);
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

/** Removes empty variables of options from the environment: they count as unset, and Commander would parse their values. */
export function dropEmptyVariables(command: Command): void {
  for (const { envVar = '' } of command.options) if (process.env[envVar] === '') delete process.env[envVar];
  for (const below of command.commands) dropEmptyVariables(below);
}

/** Refuses empty values. Commander turns a switch on if its variable is set, to whatever value: reads the value. */
function readValues(command: Command): void {
  for (const option of command.options) {
    const key = option.attributeName();
    if (option.required && command.getOptionValue(key) === '')
      throw usage(`${option.long} has no value; give it one, or leave it out`);
    if (!option.isBoolean() || command.getOptionValueSource(key) !== 'env') continue;
    const name = option.envVar!;
    const text = process.env[name]!;
    if (OFF.test(text)) command.setOptionValueWithSource(key, false, 'env');
    else if (!isOn(text)) {
      throw usage(`the environment has ${name}=${text}; set it to 1, true or yes, to 0, false or no, or not at all`);
    }
  }
}
