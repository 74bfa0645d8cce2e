import { RunTimeProblem } from '../../app/stopped-gateway.ts';
import { mayHaveBeenAdded } from '../../model/may-have-been-added.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT } from '../exit-code.ts';
import { secretAccess } from './secrets.ts';

/**
 * Stores the secrets of new servers and resolves with the names that did not exist before, which the caller removes if the
 * server is not added. On an error it removes those itself; a secret that existed keeps its new value.
 */
export async function storeSecrets(
  input: CommandInput,
  secrets: ReadonlyMap<string, string>,
  nearest = true,
): Promise<readonly string[]> {
  if (secrets.size === 0) return [];
  const { changes, close } = await secretAccess(input, nearest);
  const fresh: string[] = [];
  try {
    const before = new Set((await changes.list()).map(({ name }) => name));
    for (const [name, value] of secrets) {
      await changes.put(name, value);
      if (!before.has(name)) fresh.push(name);
    }
    return fresh;
  } catch (error) {
    for (const name of fresh) await changes.delete(name).catch(() => {});
    throw error;
  } finally {
    await close();
  }
}

export async function removeSecrets(input: CommandInput, names: readonly string[], nearest = true): Promise<void> {
  if (names.length === 0) return;
  const { changes, close } = await secretAccess(input, nearest);
  try {
    for (const name of names) await changes.delete(name);
  } finally {
    await close();
  }
}

/** Whether the gateway refused the server, so that the server certainly does not exist. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof RunTimeProblem) return !mayHaveBeenAdded(error.code);
  if (!(error instanceof CommandError) || error.exitCode !== EXIT.usage) return false;
  return !mayHaveBeenAdded((error.cause as { readonly code?: unknown } | undefined)?.code);
}
