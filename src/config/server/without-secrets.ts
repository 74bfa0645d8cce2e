import { hash } from 'node:crypto';
import { isSecretHeader, isSecretVariable } from '../../model/secret.ts';

const VARIABLES = /^(?:env|environment|envs)$/;
const HEADERS = /^(?:http_)?headers$/;

/** Replaces values that look like secrets by references to secrets, and adds the values to `secrets`. */
export function withoutSecrets<T extends object>(server: string, definition: T, secrets: Map<string, string>): T {
  const moved = Object.entries(definition).map(([key, values]): [string, unknown] => {
    const isSecret = VARIABLES.test(key) ? isSecretVariable : HEADERS.test(key) ? isSecretHeader : null;
    if (isSecret === null || typeof values !== 'object' || values === null || Array.isArray(values)) {
      return [key, values];
    }
    const all = Object.entries(values).map(([name, value]): [string, unknown] => {
      if (typeof value !== 'string' || value.includes('${') || value.length < 6 || !isSecret(name, value)) {
        return [name, value];
      }
      const [, scheme = '', bare = value] = /^(Bearer |Basic |Token )(.+)$/is.exec(value) ?? [];
      const secret = secretNameOf(server, name);
      secrets.set(secret, bare);
      return [name, `${scheme}\${secret:${secret}}`];
    });
    return [key, Object.fromEntries(all)];
  });
  return Object.fromEntries(moved) as T;
}

/** Name of the secret for a variable, header or input of this name; a digest replaces the end of one that is too long. */
export function secretNameOf(server: string, name: string): string {
  const full = `${server}-${name.toLowerCase()}`.replaceAll(/[^A-Za-z0-9_.-]/g, '-');
  return full.length <= 128 ? full : `${full.slice(0, 115)}-${hash('sha256', full).slice(0, 12)}`;
}
