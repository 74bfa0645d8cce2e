import { loadConfig } from '../../config/load-config.ts';
import type { ConfiguredServer } from './gateway-options.ts';
import { ConfigError } from './open-errors.ts';

/** Reads one definition as in a file. Throws ConfigError; its positions are lines of the definition as JSON. */
export async function readDefinition(
  name: string,
  definition: ConfiguredServer,
  label: string,
  options: { readonly cwd: string; readonly env: Readonly<Record<string, string | undefined>> },
) {
  const text = JSON.stringify({ servers: { [name]: definition } }, null, 2);
  const result = await loadConfig({ inline: [{ label, text }], ...options, strict: true });
  if (!result.ok) throw new ConfigError(result.problems);
  const { state, warnings, secrets } = result;
  const server = state.servers.get(name);
  if (server === undefined) throw new ConfigError(warnings);
  return { server, warnings, secrets };
}
