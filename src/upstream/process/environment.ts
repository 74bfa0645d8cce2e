import { revealed } from '../../model/secret.ts';
import type { StdioSpec } from '../../model/server.ts';

const ALWAYS = new Set([
  ...['PATH', 'HOME', 'USER', 'SHELL', 'LANG', 'TZ', 'TMPDIR'],
  ...['NODE_EXTRA_CA_CERTS', 'SSH_AUTH_SOCK', 'DOCKER_HOST'],
]);
const ALWAYS_PATTERN = /^(?:LC_|XDG_)|_PROXY$/i;
/** Names that tell a secret lies behind them; `TRUNKLINE_INPUT_…` holds answers to password prompts. */
const SECRET_PATTERN = /TOKEN|SECRET|PASSWORD|^TRUNKLINE_INPUT_/i;

/**
 * The environment of a local server: a minimal part of ours, what `inheritEnv` adds, and what is declared. A variable
 * whose name speaks of a secret is never inherited unless it is listed by name; declared ones always win.
 */
export function childEnvironment(
  spec: Pick<StdioSpec, 'env' | 'inheritEnv'>,
  own: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const environment: Record<string, string> = {};
  const listed = typeof spec.inheritEnv === 'boolean' ? new Set<string>() : new Set(spec.inheritEnv);
  for (const [name, value] of Object.entries(own)) {
    if (value === undefined) continue;
    const wanted = ALWAYS.has(name) || ALWAYS_PATTERN.test(name) || spec.inheritEnv === true;
    if (listed.has(name) || (wanted && !SECRET_PATTERN.test(name))) environment[name] = value;
  }
  return Object.assign(environment, revealed(spec.env));
}
