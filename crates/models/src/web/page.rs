//! Gets one page: the headers, and the body up to a limit. Every page has a client of its own, made for the addresses that
//! its host was judged by, so that the connection cannot lead anywhere else; certificates are loaded once.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use lathe_protocol::web::{PageGet, PageReply, PageRoute, WebError};
use reqwest::header::{self, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use rustls::ClientConfig as TlsConfig;

use super::{WebClient, failed};
use crate::anthropic::{idle_tls, page_client, trusting_tls};
use crate::error::ModelError;

impl WebClient {
    /// Returns whether a page would be requested through a proxy, which then looks up the name of the host; false if
    /// the address is not valid.
    pub fn uses_proxy(&self, url: &str) -> bool {
        Url::parse(url).is_ok_and(|url| self.proxy_of(&url).is_some())
    }

    /// Gets a page by the given route and returns its head, and up to `max_bytes` of its body if its status is a
    /// success. Redirects are not followed. Dropping the future cancels the request; it has no time limit of its own.
    pub async fn get_page(&self, get: PageGet<'_>) -> Result<PageReply, WebError> {
        let unusable = |why: &str| WebError::Unusable(why.to_owned());
        let url = Url::parse(get.url).map_err(|error| WebError::Unusable(format!("the address: {error}")))?;
        let no_addresses: &[IpAddr] = &[];
        let (addresses, proxy) = match get.route {
            PageRoute::Direct(addresses) => (addresses.as_slice(), None),
            PageRoute::Proxy => {
                let proxy = self.proxy_of(&url);
                (no_addresses, Some(proxy.ok_or_else(|| unusable("no proxy is set for this address"))?))
            }
        };
        let is_secure = url.scheme() == "https" || proxy.is_some_and(|proxy| proxy.starts_with("https:"));
        let host = url.host_str().ok_or_else(|| unusable("the address names no host"))?;
        let client = page_client(self.page_tls(is_secure)?, host, addresses, proxy);
        let client = client.map_err(|error| WebError::Unusable(error.message))?;
        let mut request = Request::new(Method::GET, url.clone());
        for (name, value) in get.headers {
            request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let response = client.execute(request).await.map_err(|error| failed(error.without_url()))?;
        read(response, get.max_bytes).await
    }

    /// Returns the proxy for an address, by the rules of curl; `None` if it is to be reached directly.
    fn proxy_of(&self, url: &Url) -> Option<&str> {
        let proxy = self.proxy.for_base(url)?;
        let direct = self.proxy.no_proxy.clone().unwrap_or_default();
        let uri: Uri = url.as_str().parse().ok()?;
        let matcher = Matcher::builder().all(proxy.to_owned()).no(direct).build();
        matcher.intercept(&uri).map(|_| proxy)
    }

    /// Returns TLS for a page. Certificates are read by the first page that needs them and kept, a failure included;
    /// where TLS is not used, none is read.
    fn page_tls(&self, is_secure: bool) -> Result<TlsConfig, WebError> {
        let unusable = |error: ModelError| WebError::Unusable(error.message);
        if !is_secure {
            return idle_tls().map_err(unusable);
        }
        let load = || trusting_tls(self.extra_ca_file.as_deref()).map_err(unusable);
        self.page_tls.get_or_init(load).clone()
    }
}

/// Reads the head of a response and, if its status is a success, at most `max` bytes of its body. A body that is larger
/// is marked as cut, and empty if its length was announced.
async fn read(mut response: Response, max: usize) -> Result<PageReply, WebError> {
    let text = |name: HeaderName| {
        let value = response.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let mut reply = PageReply {
        status: response.status().as_u16(),
        status_text: response.status().canonical_reason().unwrap_or_default().to_owned(),
        location: text(header::LOCATION),
        content_type: text(header::CONTENT_TYPE),
        content_encoding: text(header::CONTENT_ENCODING),
        ..PageReply::default()
    };
    // Only a page is read: what a redirect or an error says besides its status is shown to no one.
    if !response.status().is_success() {
        return Ok(reply);
    }
    let announced = response.content_length().unwrap_or(0);
    if announced > max as u64 {
        reply.is_cut = true;
        return Ok(reply);
    }
    reply.body.reserve(usize::try_from(announced).unwrap_or(0));
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(error.without_url()))? {
        if chunk.len() > max - reply.body.len() {
            reply.is_cut = true;
            break;
        }
        reply.body.extend_from_slice(&chunk);
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anthropic::ProxyConfig;

    #[test]
    fn the_variables_say_which_pages_go_through_a_proxy() {
        let proxy = ProxyConfig {
            http: None,
            https: Some("http://proxy.example:3128".to_owned()),
            no_proxy: Some("direct.example,.inner.example,192.0.2.0/24".to_owned()),
        };
        let client = WebClient::new(proxy, None);
        for (url, proxied) in [
            ("https://example.com/", true),
            ("http://example.com/", false),
            ("https://direct.example/x", false),
            ("https://a.inner.example/", false),
            ("https://192.0.2.7/", false),
            ("https://127.0.0.1/", false),
            ("https://localhost/", false),
        ] {
            assert_eq!(client.uses_proxy(url), proxied, "{url}");
        }
    }
}
