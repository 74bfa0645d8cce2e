import { GatewayError } from '../../model/gateway-error.ts';

/** A server of the stateless era does not take `initialize` too. Nothing of a call was sent. */
export class EraUnspoken extends GatewayError {
  /** The server said so itself; else it may have been the moment, and the server's next start is asked again. */
  readonly lasting: boolean;

  constructor(server: string, why: string, lasting: boolean) {
    super('NOT_SENT', `${server} takes no initialize: ${why}`, { server });
    this.lasting = lasting;
  }
}
