import type { Credential } from '../../src/credentials/credential.ts';

/** The stored credential of a login, with the access token `canary`. */
export const CREDENTIAL = {
  url: 'https://mcp.example/mcp',
  authority: { metadata: { issuer: 'https://as.example' }, resource: null, scopes: null },
  client: { id: 'c', secret: null, privateKey: null, authMethod: null },
  scopes: [],
  tokens: { access: 'canary', refresh: null, scheme: 'Bearer', scopes: [], expiresAt: null, aheadMs: 0, key: null },
} as unknown as Credential;
