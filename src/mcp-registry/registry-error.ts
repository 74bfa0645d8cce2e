/** `unreachable`: unreadable registry. `unknown`: no such server in it. `invalid`: invalid or unsupported document or value. */
export type RegistryFault = 'unreachable' | 'unknown' | 'invalid';

export class RegistryError extends Error {
  readonly fault: RegistryFault;

  constructor(fault: RegistryFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}
