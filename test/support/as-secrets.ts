import { Secret } from '../../src/model/secret.ts';

/** Every value of `values` kept as a secret. */
export function asSecrets(values: Readonly<Record<string, string>>): Record<string, Secret> {
  const secrets: Record<string, Secret> = Object.create(null);
  for (const [name, value] of Object.entries(values)) secrets[name] = new Secret(value);
  return secrets;
}
