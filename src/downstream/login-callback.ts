import type { RequestContext } from '../http/listener/request-context.ts';
import type { RouteTable } from '../http/listener/route-table.ts';
import { PAGE_HEADERS, PAGE_TYPE, plainPage } from '../http/plain-page.ts';
import type { Logins } from '../model/credential-ports.ts';
import { GatewayError } from '../model/gateway-error.ts';

const CALLBACK = '/oauth/callback';
const CLIENT = '/oauth/client.json';
/**
 * Where authorization servers send browsers back to, and the client id metadata document that they read. Both only matter
 * where `listen.publicUrl` says how the gateway is reached.
 */
export function registerLoginCallback(routes: RouteTable, logins: Logins, publicUrl: () => string | null): void {
  routes.add(CALLBACK, { GET: (context) => void finish(context, logins) });
  routes.add(CLIENT, {
    GET: (context) => {
      const id = clientMetadataUrl(publicUrl());
      if (id !== null) context.json(200, JSON.stringify(clientMetadata(id, publicUrl()!)));
      else context.refuse({ status: 404, code: 'not_found', message: 'listen.publicUrl is not set to an https URL' });
    },
  });
}

/** The redirect URI of logins that end at the gateway; null where browsers cannot reach it. */
export function callbackUrl(publicUrl: string | null): string | null {
  return publicUrl === null ? null : `${publicUrl}${CALLBACK}`;
}

/** The client id, which is the address of the document (SEP-991); null where no authorization server could read it. */
export function clientMetadataUrl(publicUrl: string | null): string | null {
  return publicUrl?.startsWith('https:') === true ? `${publicUrl}${CLIENT}` : null;
}

function clientMetadata(id: string, publicUrl: string): object {
  return {
    client_id: id,
    client_name: 'Trunkline',
    client_uri: publicUrl,
    redirect_uris: [`${publicUrl}${CALLBACK}`, 'http://127.0.0.1/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'web',
  };
}

/** `state` is 128 random bits that only who began the login was given, and good for one answer. */
async function finish(context: RequestContext, logins: Logins): Promise<void> {
  try {
    const { server } = await logins.finish(`http://localhost${CALLBACK}?${context.query}`);
    send(context, 200, 'Signed in', `The gateway is signed in to ${server}. You can close this page.`);
  } catch (error) {
    if (error instanceof GatewayError) send(context, 400, 'The login has failed', error.message);
    else context.refuse({ status: 500, code: 'internal', message: 'a defect of the gateway; its log has the details' });
  }
}

function send(context: RequestContext, status: number, title: string, text: string): void {
  context.answer(status, PAGE_TYPE, Buffer.from(plainPage(title, text)), PAGE_HEADERS);
}
