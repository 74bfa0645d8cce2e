/** A JSON-RPC error that a server answered with, in its own words; a failure of the gateway is a GatewayError. */
export class ServerError extends Error {
  /** JSON-RPC error code. */
  readonly code: number;
  readonly data: unknown;
  /** The `error` object as the server wrote it, JSON text. */
  readonly raw: string;

  constructor(raw: string) {
    const { code, message, data } = JSON.parse(raw) as { code?: unknown; message?: unknown; data?: unknown };
    super(typeof message === 'string' ? message : 'the server gave no reason');
    this.name = 'ServerError';
    this.code = typeof code === 'number' ? code : 0;
    this.data = data;
    this.raw = raw;
  }
}
