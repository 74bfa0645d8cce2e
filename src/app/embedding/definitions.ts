import { loadConfig } from '../../config/load-config.ts';
import type { ConfigProblem } from '../../config/problem/problem.ts';
import type { Server } from '../../model/server.ts';
import type { ConfiguredServer } from './gateway-options.ts';
import { ConfigError } from './open-errors.ts';

export interface ReadDefinition {
  readonly server: Server;
  readonly warnings: readonly ConfigProblem[];
  readonly secrets: readonly string[];
}

/** Reads one definition as it would be read in a file. Throws ConfigError; places are lines of the definition as JSON. */
export async function readDefinition(
  name: string,
  definition: ConfiguredServer,
  options: {
    readonly label: string;
    readonly cwd: string;
    readonly env: Readonly<Record<string, string | undefined>>;
  },
): Promise<ReadDefinition> {
  const { label, cwd, env } = options;
  const text = JSON.stringify({ servers: { [name]: definition } }, null, 2);
  const result = await loadConfig({ inline: [{ label, text }], cwd, env, strict: true });
  if (!result.ok) throw new ConfigError(result.problems);
  const server = result.state.servers.get(name);
  if (server === undefined) throw new ConfigError(result.warnings);
  return { server, warnings: result.warnings, secrets: result.secrets };
}
