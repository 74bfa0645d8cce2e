import { inspect } from 'node:util';

const MASK = '[redacted]';

/**
 * A value that must appear in no log, status, metric or error. Every way of printing it shows `[redacted]`;
 * `reveal` is the one way to the value, and easy to search for.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}

/** Every value of `values` kept as a secret. */
export function asSecrets(values: Readonly<Record<string, string>>): Record<string, Secret> {
  const secrets: Record<string, Secret> = Object.create(null);
  for (const [name, value] of Object.entries(values)) secrets[name] = new Secret(value);
  return secrets;
}

/** The values of `secrets`, to be handed to what they are for. */
export function revealed(secrets: Readonly<Record<string, Secret>>): Record<string, string> {
  const values: Record<string, string> = Object.create(null);
  for (const [name, secret] of Object.entries(secrets)) values[name] = secret.reveal();
  return values;
}
