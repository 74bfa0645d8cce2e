/** `unreachable`: the registry cannot be read. `unknown`: it has no such server. `invalid`: the document or a given value is malformed or not accepted. */
export type RegistryFault = 'unreachable' | 'unknown' | 'invalid';

export class RegistryError extends Error {
  readonly fault: RegistryFault;

  constructor(fault: RegistryFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}
