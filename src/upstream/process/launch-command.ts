import { basename } from 'node:path';
import type { StdioSpec } from '../../model/server.ts';
import { childEnvironment } from './environment.ts';

const MASK = '[redacted]';
const SECRET_OPTION =
  /token|secret|passw|pwd|credential|authorization|api[-_]?key|access[-_]?key|[-_]key$|^-*key$|dsn$/i;
const USER_INFO = /:\/\/[^/\s@]*@/g;
const ASSIGNMENT = /^([A-Za-z_]\w*)=./s;

/**
 * Arguments as they may be shown: values that are set for a container (`-e NAME=value`), given to an option or variable
 * that speaks of a secret, or stand before the host of an address, are masked. `redact` masks every known secret.
 */
export function shownArguments(args: readonly string[], redact: (text: string) => string): string[] {
  return args.map((arg, index) => redact(masked(arg, args[index - 1] ?? '')));
}

function masked(arg: string, before: string): string {
  if (SECRET_OPTION.test(before) && /^--?[\w-]+$/.test(before) && !arg.startsWith('-')) return MASK;
  const option = /^(--?[\w-]+)=(.+)$/s.exec(arg);
  if (option !== null) {
    const [, name, value] = option;
    if (name === '--env') return `${name}=${assigned(value!)}`;
    return SECRET_OPTION.test(name!) ? `${name}=${MASK}` : arg.replace(USER_INFO, `://${MASK}@`);
  }
  if (isEnvironmentOption(before)) return assigned(arg);
  const variable = ASSIGNMENT.exec(arg)?.[1];
  if (variable !== undefined && SECRET_OPTION.test(variable)) return `${variable}=${MASK}`;
  return arg.replace(USER_INFO, `://${MASK}@`);
}

function assigned(text: string): string {
  const name = ASSIGNMENT.exec(text)?.[1];
  return name === undefined ? text : `${name}=${MASK}`;
}

/**
 * Names that the command line hands on to a container (`docker run -e NAME`), and names that the definition inherits,
 * of variables that are not there to be handed on. Sorted.
 */
export function missingVariables(spec: StdioSpec, own: Readonly<Record<string, string | undefined>>): string[] {
  const there = childEnvironment(spec, own);
  const named = new Set(typeof spec.inheritEnv === 'boolean' ? [] : spec.inheritEnv);
  if (/^(?:docker|podman|nerdctl)$/.test(basename(spec.command))) {
    for (const name of handedOn(spec.args)) named.add(name);
  }
  return [...named].filter((name) => there[name] === undefined).sort();
}

function handedOn(args: readonly string[]): string[] {
  return args.flatMap((arg, index) => {
    const name = isEnvironmentOption(args[index - 1] ?? '') ? arg : (/^--env=(.+)$/.exec(arg)?.[1] ?? '');
    return /^[A-Za-z_]\w*$/.test(name) ? [name] : [];
  });
}

function isEnvironmentOption(arg: string): boolean {
  return arg === '-e' || arg === '--env';
}
