import { GatewayError } from './gateway-error.ts';

/** Another node of the cluster has what should be begun here. It says nothing of the server. */
export class OwnedElsewhere extends GatewayError {
  constructor(server: string, node: string) {
    super('NOT_SENT', `${server} is owned by node ${node}`, { server });
  }
}
