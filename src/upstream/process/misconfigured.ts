import { GatewayError } from '../../model/gateway-error.ts';

/** A server that cannot be started before somebody corrects its definition or installs what it names. */
export class Misconfigured extends GatewayError {
  constructor(message: string, server: string) {
    super('NOT_SENT', message, { server });
  }
}
