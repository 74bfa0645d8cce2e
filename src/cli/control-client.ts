import type { RunningGateway } from '../app/running.ts';
import { CommandError, EXIT } from './exit-code.ts';

/** The control API of a running gateway. Answers are JSON text, as they came. */
export class ControlClient {
  readonly #gateway: RunningGateway;

  constructor(gateway: RunningGateway) {
    this.#gateway = gateway;
  }

  get(path: string): Promise<string> {
    return this.#send('GET', path, null);
  }

  post(path: string, body: string): Promise<string> {
    return this.#send('POST', path, body);
  }

  async #send(method: string, path: string, body: string | null): Promise<string> {
    const { instance, token } = this.#gateway;
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body === null ? {} : { 'content-type': 'application/json' }),
    };
    let response: Response;
    try {
      response = await fetch(new URL(path, instance.controlUrl), { method, headers, body });
    } catch (error) {
      throw new CommandError(
        EXIT.unreachable,
        `the gateway (pid ${instance.pid}) does not answer at ${instance.controlUrl}`,
        {
          cause: error,
        },
      );
    }
    const text = await response.text();
    if (response.ok) return text;
    throw new CommandError(
      response.status === 401 ? EXIT.authRequired : EXIT.usage,
      messageOf(text) ?? `HTTP ${response.status}`,
    );
  }
}

function messageOf(text: string): string | null {
  try {
    return (JSON.parse(text) as { error: { message: string } }).error.message;
  } catch {
    return null;
  }
}
