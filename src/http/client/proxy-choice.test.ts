import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ProxyEnvironment, proxyFor } from './proxy-choice.ts';

const P = 'http://proxy.example:3128';
const rows: [string, ProxyEnvironment, string | null][] = [
  ['https://a.example/', {}, null],
  ['https://a.example/', { HTTPS_PROXY: P }, `${P}/`],
  ['https://a.example/', { https_proxy: P, HTTPS_PROXY: 'http://other/' }, `${P}/`],
  ['https://a.example/', { HTTP_PROXY: P }, null],
  ['http://a.example/', { HTTP_PROXY: P }, `${P}/`],
  ['http://a.example/', { ALL_PROXY: P }, `${P}/`],
  ['http://a.example/', { HTTP_PROXY: 'proxy.example:3128' }, `${P}/`],
  ['http://a.example/', { HTTP_PROXY: '' }, null],
  ['http://localhost:3000/', { HTTP_PROXY: P }, null],
  ['http://127.0.0.1:3000/', { HTTP_PROXY: P }, null],
  ['http://[::1]:3000/', { HTTP_PROXY: P }, null],
  ['https://a.example/', { HTTPS_PROXY: P, NO_PROXY: '*' }, null],
  ['https://a.example/', { HTTPS_PROXY: P, NO_PROXY: 'b.example, a.example' }, null],
  ['https://x.a.example/', { HTTPS_PROXY: P, NO_PROXY: 'a.example' }, null],
  ['https://x.a.example/', { HTTPS_PROXY: P, NO_PROXY: '.a.example' }, null],
  ['https://x.a.example/', { HTTPS_PROXY: P, no_proxy: '*.a.example' }, null],
  ['https://bada.example/', { HTTPS_PROXY: P, NO_PROXY: 'a.example' }, `${P}/`],
  ['https://a.example:8443/', { HTTPS_PROXY: P, NO_PROXY: 'a.example:8443' }, null],
  ['https://a.example/', { HTTPS_PROXY: P, NO_PROXY: 'a.example:8443' }, `${P}/`],
  ['https://a.example/', { HTTPS_PROXY: P, NO_PROXY: 'a.example:443' }, null],
  ['http://10.1.2.3/', { HTTP_PROXY: P, NO_PROXY: '10.0.0.0/8' }, null],
  ['http://11.1.2.3/', { HTTP_PROXY: P, NO_PROXY: '10.0.0.0/8' }, `${P}/`],
  ['http://10.1.2.3/', { HTTP_PROXY: P, NO_PROXY: '10.1.2.3' }, null],
  ['http://[fd00::1]/', { HTTP_PROXY: P, NO_PROXY: 'fd00::/8' }, null],
  ['http://[fd00::1]/', { HTTP_PROXY: P, NO_PROXY: '[fd00::1]:80' }, null],
];

test('proxy variables', () => {
  for (const [url, environment, expected] of rows) {
    assert.equal(
      proxyFor(new URL(url), environment)?.href ?? null,
      expected,
      `${url} with ${JSON.stringify(environment)}`,
    );
  }
});
