import { basename } from 'node:path';
import type { StdioSpec } from '../../model/server.ts';
import { childEnvironment } from './environment.ts';

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
