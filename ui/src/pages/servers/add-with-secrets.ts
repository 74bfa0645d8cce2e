import { mayHaveBeenAdded } from '../../../../src/model/may-have-been-added.ts';
import { addServer, deleteSecret, listSecrets, putSecret, type Server } from '../../api/operations.ts';
import { ApiError } from '../../api/request.ts';
import { servers } from '../../servers.ts';

/** What is added: a definition as in a file, and the values of the secrets that it refers to. */
export interface NewServer {
  readonly definition: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, string>>;
}

/** Sets the secrets and adds the server. Where it is refused, the secrets that were not there before are removed again. */
export async function addWithSecrets({ definition, secrets }: NewServer): Promise<Server> {
  const values = Object.entries(secrets);
  if (values.length === 0) return addServer({ body: definition });
  // Those of the server that is there are its own.
  const name = String(definition['name']);
  if (servers.value?.has(name)) throw new Error(`the server ${name} exists already: choose another name`);
  const before = new Set((await listSecrets()).secrets.map((secret) => secret.name));
  const fresh: string[] = [];
  try {
    for (const [secret, value] of values) {
      await putSecret({ name: secret, body: { value } });
      if (!before.has(secret)) fresh.push(secret);
    }
    return await addServer({ body: definition });
  } catch (error) {
    const refused = error instanceof ApiError && !mayHaveBeenAdded(error.code);
    if (refused) for (const secret of fresh) await deleteSecret({ name: secret }).catch(() => {});
    throw error;
  }
}
